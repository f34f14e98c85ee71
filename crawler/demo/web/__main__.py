from crawler.demo.web.server import main

main()
